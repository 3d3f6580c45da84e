package identity

import (
	"crypto/rand"
	"errors"
)

var errBroken = errors.New("the sealed text is truncated, changed, or sealed with another key")

// Encrypt encrypts text and binds it to its place, so that it opens nowhere else.
func (s *Service) Encrypt(text []byte, place string) []byte {
	nonce := make([]byte, s.Seal.NonceSize())
	_, _ = rand.Read(nonce) // never fails: it ends the process instead
	return s.Seal.Seal(nonce, nonce, text, []byte(place))
}

// Decrypt opens what Encrypt has returned for the same place.
func (s *Service) Decrypt(sealed []byte, place string) ([]byte, error) {
	n := s.Seal.NonceSize()
	if len(sealed) < n {
		return nil, errBroken
	}
	text, err := s.Seal.Open(nil, sealed[:n], sealed[n:], []byte(place))
	if err != nil {
		return nil, errBroken
	}
	return text, nil
}

package helper

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuaas/gpuaas/agent/journal"
	"github.com/gpuaas/gpuaas/internal/durable"
)

const (
	proofFile = "proof.key"
	proofKind = "GPUAAS PROOF SEED"
)

// ProofKey returns the key with which this node signs its proofs, and creates it if there is none.
// It is not part of the journal, so it outlives a lost one: the control plane has stored its public
// part at enrolment.
func ProofKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, proofFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newProofKey(dir, path)
	} else if err != nil {
		return nil, fmt.Errorf("reading proof key: %w", err)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != proofKind || len(block.Bytes) != ed25519.SeedSize || len(rest) > 0 {
		return nil, fmt.Errorf("%s is no proof key: remove it and enrol the node again", path)
	}
	return ed25519.NewKeyFromSeed(block.Bytes), nil
}

// PublicKey is the public part of ProofKey.
func PublicKey(dir string) (ed25519.PublicKey, error) {
	key, err := ProofKey(dir)
	if err != nil {
		return nil, err
	}
	public, _ := key.Public().(ed25519.PublicKey) // it is one by its type
	return public, nil
}

func newProofKey(dir, path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making proof key: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making proof key: %w", err)
	}
	return key, durable.Create(path, pem.EncodeToMemory(&pem.Block{Type: proofKind, Bytes: key.Seed()}), 0o600)
}

func isLost(err error) bool { return errors.Is(err, journal.ErrLost) }

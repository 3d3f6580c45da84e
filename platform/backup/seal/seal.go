package seal

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Sign signs a message for one purpose, so that a signature of one purpose is worth nothing for another.
func (s Server) Sign(purpose string, message []byte) []byte {
	return ed25519.Sign(s.signing, framed(purpose, message))
}

// Verify reports whether the server has signed the message for the purpose.
func (v Verifier) Verify(purpose string, message, signature []byte) bool {
	return len(v.key) == ed25519.PublicKeySize && ed25519.Verify(v.key, framed(purpose, message), signature)
}

func framed(purpose string, message []byte) []byte {
	return append([]byte("gpuaas backup "+purpose+"\n"), message...)
}

// Encrypt returns a writer that compresses and encrypts to w. Its Close writes the end, without which nothing is
// decrypted completely; it does not close w.
func (s Server) Encrypt(w io.Writer) (io.WriteCloser, error) {
	encrypted, err := age.Encrypt(w, s.recipient)
	if err != nil {
		return nil, fmt.Errorf("encrypting: %w", err)
	}
	compressed, err := zstd.NewWriter(encrypted, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("compressing: %w", err)
	}
	return &sealer{compressed, encrypted}, nil
}

type sealer struct {
	*zstd.Encoder

	encrypted io.Closer
}

func (s *sealer) Close() error { return errors.Join(s.Encoder.Close(), s.encrypted.Close()) }

// maxWindow limits the memory that an encrypted stream can demand. The encoder uses at most 8 MiB.
const maxWindow = 32 << 20

// Decrypt calls read with the decrypted content of r. It fails if r ends early or was altered, also behind the last
// byte that read has read.
func (o Operator) Decrypt(r io.Reader, read func(io.Reader) error) error {
	plain, err := age.Decrypt(r, o.identity)
	if wrong := (*age.NoIdentityMatchError)(nil); errors.As(err, &wrong) {
		return errs.New(errs.DecryptionFailed, "the identity is not that of the recipient").
			Try("pass the operator's key file that belongs to the key file of the server").Because(err)
	}
	if err != nil {
		return damaged(err)
	}
	from := &origin{from: plain}
	content, err := zstd.NewReader(from, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return damaged(err)
	}
	defer content.Close()
	last := &origin{from: content}
	if err := read(last); err != nil {
		if last.err != nil || from.err != nil {
			return damaged(errors.Join(last.err, from.err))
		}
		return err
	}
	for _, rest := range []io.Reader{content, plain} {
		if n, err := io.Copy(io.Discard, rest); err != nil || n > 0 {
			return damaged(fmt.Errorf("%d bytes behind the end: %w", n, err))
		}
	}
	return nil
}

// origin stores the error of its reader: the caller of Decrypt may replace it.
type origin struct {
	from io.Reader
	err  error
}

func (o *origin) Read(p []byte) (int, error) {
	n, err := o.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		o.err = err
	}
	return n, err
}

func damaged(cause error) error {
	return errs.New(errs.DecryptionFailed, "an encrypted file is cut or altered").Try("use another copy of the backup, or an older backup").Because(cause)
}

package seal_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
)

func keys(t *testing.T) (seal.Server, seal.Operator) {
	t.Helper()
	serverText, operatorText, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	server, err := seal.ParseServer("key", []byte(serverText))
	if err != nil {
		t.Fatal(err)
	}
	operator, err := seal.ParseOperator("identity", []byte(operatorText))
	if err != nil {
		t.Fatal(err)
	}
	return server, operator
}

func encrypt(t *testing.T, server seal.Server, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := server.Encrypt(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func decrypt(operator seal.Operator, text []byte) (content []byte, err error) {
	err = operator.Decrypt(bytes.NewReader(text), func(r io.Reader) error {
		content, err = io.ReadAll(r)
		return err
	})
	return content, err
}

// TestACutOrAlteredStreamIsNamed cuts a stream of several chunks at 200 places, and alters a byte at 200 places.
func TestACutOrAlteredStreamIsNamed(t *testing.T) {
	t.Parallel()
	server, operator := keys(t)
	content := make([]byte, 300<<10)
	_, _ = rand.Read(content)
	whole := encrypt(t, server, content)
	if got, err := decrypt(operator, whole); err != nil || !bytes.Equal(got, content) {
		t.Fatalf("%d bytes: %v", len(got), err)
	}
	const places = 200
	for i := range places {
		at := i * len(whole) / places
		if _, err := decrypt(operator, whole[:at]); errs.CodeOf(err) != errs.DecryptionFailed {
			t.Errorf("cut at %d of %d: %v", at, len(whole), err)
		}
		altered := bytes.Clone(whole)
		altered[at] ^= 1
		if _, err := decrypt(operator, altered); errs.CodeOf(err) != errs.DecryptionFailed {
			t.Errorf("altered at %d: %v", at, err)
		}
	}
	if _, err := decrypt(operator, append(bytes.Clone(whole), 0)); errs.CodeOf(err) != errs.DecryptionFailed {
		t.Errorf("a byte behind the end: %v", err)
	}
}

func TestOtherKeys(t *testing.T) {
	t.Parallel()
	server, operator := keys(t)
	_, other := keys(t)
	if _, err := decrypt(other, encrypt(t, server, []byte("x"))); errs.CodeOf(err) != errs.DecryptionFailed || !strings.Contains(err.Error(), "recipient") {
		t.Errorf("another identity: %v", err)
	}
	signature := server.Sign("a", []byte("text"))
	for name, ok := range map[string]bool{
		"same":            operator.Verify("a", []byte("text"), signature),
		"another key":     !other.Verify("a", []byte("text"), signature),
		"another purpose": !operator.Verify("b", []byte("text"), signature),
		"another text":    !operator.Verify("a", []byte("tex"), signature),
		"no key":          !seal.Verifier{}.Verify("a", []byte("text"), signature),
	} {
		if !ok {
			t.Error(name)
		}
	}
}

// TestTheReaderKeepsItsError: an error of the caller is not one of the stream.
func TestTheReaderKeepsItsError(t *testing.T) {
	t.Parallel()
	server, operator := keys(t)
	own := errors.New("disk full")
	if err := operator.Decrypt(bytes.NewReader(encrypt(t, server, []byte("x"))), func(io.Reader) error { return own }); !errors.Is(err, own) || errs.CodeOf(err) != errs.Internal {
		t.Errorf("%v", err)
	}
}

func TestKeyFilesAreStrict(t *testing.T) {
	t.Parallel()
	server, operator, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	line := func(text string, i int) string { return strings.Split(text, "\n")[i] }
	for name, text := range map[string]string{
		"empty": "", "of the operator": operator, "without a line": strings.Replace(server, line(server, 3)+"\n", "", 1),
		"two of a line": server + line(server, 3) + "\n", "unknown line": server + "more text\n", "cut": server[:len(server)-4],
		"long": server + strings.Repeat("#\n", seal.MaxKeyFile),
	} {
		if _, err := seal.ParseServer("key", []byte(text)); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("server file %s: %v", name, err)
		}
	}
	for name, text := range map[string]string{"of the server": server, "altered": strings.Replace(operator, "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-2", 1)} {
		_, err := seal.ParseOperator("identity", []byte(text))
		if errs.CodeOf(err) != errs.ValidationError || strings.Contains(err.Error(), line(operator, 2)[20:40]) {
			t.Errorf("operator file %s: %v", name, err)
		}
	}
}

// Package secretref resolves references to secrets. Desired objects contain only references,
// because the history of a repository stores every value for ever.
//
// Its errors repeat neither a secret nor an invalid reference: the author may have written the
// secret itself in its place.
package secretref

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// form is #SecretRef of cue/schema, which a test compares.
var form = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/\PC{1,512}|credential:[A-Za-z0-9][-A-Za-z0-9_.]{0,127})$`)

// largest is more than any key or token.
const largest = 64 << 10

// own are the prefixes of the server's secrets. An author of a GitSource could otherwise have them
// sent to a forge.
var own = []string{"DATABASE_URL", "NATS_", "STRIPE_", "MAAS_", "VAULT_", "GPUAAS_OIDC_", "GPUAAS_TOKEN", "PG"}

// Valid reports whether text is a reference.
func Valid(text string) bool { return form.MatchString(text) }

// Resolve reads the secret that ref names, less the end of line that editors
// leave: env:NAME of this process, file:/path, or credential:NAME, one of the
// service's in $CREDENTIALS_DIRECTORY.
func Resolve(ctx context.Context, ref string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !Valid(ref) {
		return nil, errs.New(errs.SpecInvalid, "the value is not a reference to a secret").Try("env:NAME, file:/path or credential:NAME")
	}
	scheme, name, _ := strings.Cut(ref, ":")
	switch scheme {
	case "env":
		if slices.ContainsFunc(own, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return nil, errs.New(errs.Forbidden, "%s belongs to the server, and no object may use it", ref)
		}
		if value := os.Getenv(name); value != "" {
			return []byte(value), nil
		}
		return nil, absent(ref, nil)
	case "credential":
		dir := os.Getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return nil, absent(ref, nil).Try("LoadCredential= in the service's unit")
		}
		name = filepath.Join(dir, name)
	}
	return read(ref, name)
}

func read(ref, path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operators name the file; what it holds goes to nobody else
	if err != nil {
		return nil, absent(ref, err)
	}
	defer f.Close() //nolint:errcheck // read only
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errs.New(errs.SpecInvalid, "%s is no ordinary file", ref)
	}
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	switch {
	case err != nil:
		return nil, absent(ref, err)
	case len(text) > largest:
		return nil, errs.New(errs.SpecInvalid, "%s is longer than %d bytes", ref, largest)
	}
	if text = []byte(strings.TrimRight(string(text), "\r\n")); len(text) == 0 {
		return nil, absent(ref, nil)
	}
	return text, nil
}

func absent(ref string, cause error) *errs.Error {
	return errs.New(errs.NotFound, "no secret at %s on this server", ref).Because(cause)
}

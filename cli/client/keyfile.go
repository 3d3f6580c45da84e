package client

import (
	"io"
	"os"
	"strings"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Credential reads a service account's credential from a file or stdin. It never reads the command
// line, which every local process can read.
func Credential(a *output.Console, from []string) (string, error) {
	var text []byte
	var err error
	switch {
	case len(from) == 0:
		var token string
		token, err = secret(a, "GPUAAS_TOKEN")
		text = []byte(token)
	case from[0] == "-":
		text, err = io.ReadAll(io.LimitReader(a.In, 1<<10))
	default:
		text, err = os.ReadFile(from[0])
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if !strings.HasPrefix(secret, secretPrefix) {
		return "", errs.New(errs.TokenInvalid, "this is no credential of a service account: those begin with %s", secretPrefix).
			Try("gpuaas service-account credential create ACCOUNT")
	}
	return secret, nil
}

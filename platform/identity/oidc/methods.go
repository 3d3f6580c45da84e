package oidc

import (
	"strings"

	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
)

// maxMethods bounds the values of one token.
const maxMethods = 16

// signInOf reads auth_time, acr and amr. A time after the token's own is ignored. Values with the
// prefix of this installation are its own and no provider's.
func signInOf(claims jwt.Object) (in identity.SignIn) {
	at, missing := claims.Time("auth_time")
	issued, err := claims.Time("iat")
	if missing == nil && err == nil && !at.After(issued.Add(jwt.Leeway)) {
		in.At = at
	}
	var methods []string
	for _, m := range append([]string{claims.Text("acr")}, claims.Texts("amr")...) {
		if m == "" || len(m) > 128 || strings.ContainsFunc(m, invisible) || strings.HasPrefix(m, ownMethods) {
			continue
		}
		if len(methods) < maxMethods {
			methods = append(methods, m)
		}
	}
	in.Methods = strings.Join(methods, " ")
	return in
}

const ownMethods = "gpuaas:"

func invisible(r rune) bool { return r <= ' ' || r > '~' }

package serve

import (
	"cmp"
	"fmt"
	"os"
	"strings"
)

// SignIn names the OpenID provider that people sign in at, and this server's
// client there. What is empty is the profile's to say.
type SignIn struct {
	Issuer       string
	ClientID     string
	ClientSecret string // empty: a public client
	CLIClientID  string
}

// SignInFromEnv reads what stands in the environment.
func SignInFromEnv(getenv func(string) string) (SignIn, error) {
	const name = "GPUAAS_OIDC_CLIENT_SECRET"
	s := SignIn{Issuer: cmp.Or(getenv("GPUAAS_OIDC_ISSUER_URL"), getenv("KEYCLOAK_ISSUER_URL")), ClientSecret: getenv(name)}
	if path := getenv(name + "_FILE"); s.ClientSecret == "" && path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return SignIn{}, fmt.Errorf("reading %s_FILE: %w", name, err)
		}
		s.ClientSecret = strings.TrimSpace(string(text))
	}
	return s, nil
}

package forge_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
)

func TestForgeOfASourcesSettings(t *testing.T) {
	t.Parallel()
	secrets := secretreftest.Credentials(t, "https://api.github.com", map[string]string{"fleet": "t"})
	for settings, want := range map[string]struct {
		ok   bool
		code errs.Code
	}{
		``:               {},
		`{}`:             {},
		`{"forge":null}`: {},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet"}}`:                                 {},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet","tokenRef":"credential:fleet"}}`:   {ok: true},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet","tokenRef":"credential:no-such"}}`: {code: errs.NotFound},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet","tokenRef":"ghp_itself"}}`:         {code: errs.SpecInvalid},
		// The author of a commit chooses the address, and the administrator of the server the destinations of a secret.
		`{"forge":{"kind":"github","url":"https://attacker.example","project":"acme/fleet","tokenRef":"credential:fleet"}}`:        {code: errs.Forbidden},
		`{"forge":{"kind":"github","url":"https://attacker.example","project":"acme/fleet","tokenRef":"env:DATABASE_URL"}}`:        {code: errs.SpecInvalid},
		`{"forge":{"kind":"github","url":"https://attacker.example","project":"acme/fleet","tokenRef":"file:/proc/self/environ"}}`: {code: errs.SpecInvalid},
		`{"forge":{"kind":"cvs","url":"https://api.github.com","project":"acme/fleet","tokenRef":"credential:fleet"}}`:             {code: errs.ValidationError},
		`{"forge":{"kind":"gitea","url":"http://git.example.com","project":"acme/fleet","tokenRef":"credential:fleet"}}`:           {code: errs.Forbidden},
		`{"forge":7}`: {code: errs.Internal},
	} {
		_, ok, err := forge.Of(t.Context(), []byte(settings), secrets, false)
		if ok != want.ok || errs.CodeOf(err) != want.code {
			t.Errorf("%s: %v, %v", settings, ok, err)
		}
	}
}

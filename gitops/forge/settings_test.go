package forge_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func TestForgeOfASourcesSettings(t *testing.T) {
	t.Setenv("FLEET_TOKEN", "t")
	for settings, want := range map[string]struct {
		ok   bool
		code errs.Code
	}{
		``:               {},
		`{}`:             {},
		`{"forge":null}`: {},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet"}}`:                                {},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet","tokenRef":"env:FLEET_TOKEN"}}`:   {ok: true},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet","tokenRef":"env:NO_SUCH_TOKEN"}}`: {code: errs.NotFound},
		`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet","tokenRef":"ghp_itself"}}`:        {code: errs.SpecInvalid},
		`{"forge":{"kind":"cvs","url":"https://api.github.com","project":"acme/fleet","tokenRef":"env:FLEET_TOKEN"}}`:      {code: errs.ValidationError},
		`{"forge":{"kind":"gitea","url":"http://git.example.com","project":"acme/fleet","tokenRef":"env:FLEET_TOKEN"}}`:    {code: errs.ValidationError},
		`{"forge":7}`: {code: errs.Internal},
	} {
		_, ok, err := forge.Of(t.Context(), []byte(settings), false)
		if ok != want.ok || errs.CodeOf(err) != want.code {
			t.Errorf("%s: %v, %v", settings, ok, err)
		}
	}
}

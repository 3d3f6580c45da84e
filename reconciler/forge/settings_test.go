package forge_test

import (
	"fmt"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/reconciler/forge"
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

func TestHookOfASourcesSettings(t *testing.T) {
	t.Setenv("HOOK_SECRET", string(secret))
	body := []byte(`{"ref":"refs/heads/main","after":"c0ffee"}`)
	h := header("X-Hub-Signature-256", "sha256="+sign(secret, body), "X-GitHub-Event", "push")
	for ref, want := range map[string]errs.Code{"env:HOOK_SECRET": "", "env:NOT_SET": errs.Unavailable, "": errs.SignatureInvalid} {
		hook, err := forge.VerifyFor(t.Context(), fmt.Appendf(nil, `{"forge":{"kind":"github","webhookSecretRef":%q}}`, ref), h, body)
		if errs.CodeOf(err) != want || want == "" && hook.Branch != "main" {
			t.Errorf("%q: %+v, %v", ref, hook, err)
		}
	}
	if _, err := forge.VerifyFor(t.Context(), nil, h, body); errs.CodeOf(err) != errs.SignatureInvalid {
		t.Error(err)
	}
}

package forge_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
)

var secret = []byte("a secret of the forge")

func sign(key, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Bodies are cut down to what the forges' documentation shows of them.
var hooks = map[string]struct {
	kind  forge.Kind
	event string
	body  string
	want  forge.Hook
}{
	"github push": {forge.GitHub, "push", `{"ref":"refs/heads/main","before":"1","after":"c0ffee"}`, forge.Hook{Kind: forge.HookPush, Branch: "main", Commit: "c0ffee"}},
	"github pusher": {
		forge.GitHub, "push", `{"ref":"refs/heads/main","after":"c0ffee","pusher":{"name":"ada","email":"ada@example.com"},"sender":{"login":"ada","id":1}}`,
		forge.Hook{Kind: forge.HookPush, Branch: "main", Commit: "c0ffee", Pusher: forge.Pusher{Login: "ada", Email: "ada@example.com"}},
	},
	"gitlab pusher": {
		forge.GitLab, "Push Hook", `{"object_kind":"push","ref":"refs/heads/main","after":"c0ffee","user_username":"ada","user_email":"","user_name":"Ada"}`,
		forge.Hook{Kind: forge.HookPush, Branch: "main", Commit: "c0ffee", Pusher: forge.Pusher{Login: "ada"}},
	},
	"gitea pusher": {
		forge.Gitea, "push", `{"ref":"refs/heads/main","after":"c0ffee","pusher":{"id":1,"login":"ada","email":"ada@example.com"},"sender":{"login":"ada","email":"ada@noreply.example"}}`,
		forge.Hook{Kind: forge.HookPush, Branch: "main", Commit: "c0ffee", Pusher: forge.Pusher{Login: "ada", Email: "ada@example.com"}},
	},
	"github branch gone": {forge.GitHub, "push", `{"ref":"refs/heads/a/b","after":"0000000000000000000000000000000000000000","deleted":true}`, forge.Hook{Kind: forge.HookPush, Branch: "a/b"}},
	"github tag":         {forge.GitHub, "push", `{"ref":"refs/tags/v1","after":"c0ffee"}`, forge.Hook{}},
	"github pull": {
		forge.GitHub, "pull_request", `{"action":"synchronize","number":7,"pull_request":{"head":{"sha":"beef"},"base":{"ref":"main"}}}`,
		forge.Hook{Kind: forge.HookPull, Branch: "main", Commit: "beef", Pull: 7},
	},
	"github ping":    {forge.GitHub, "ping", `{"zen":"Design for failure."}`, forge.Hook{}},
	"github unknown": {forge.GitHub, "star", `not even JSON`, forge.Hook{}},
	"gitlab push":    {forge.GitLab, "Push Hook", `{"object_kind":"push","ref":"refs/heads/main","after":"c0ffee"}`, forge.Hook{Kind: forge.HookPush, Branch: "main", Commit: "c0ffee"}},
	"gitlab merge": {
		forge.GitLab, "Merge Request Hook", `{"object_kind":"merge_request","object_attributes":{"iid":3,"target_branch":"main","last_commit":{"id":"beef"}}}`,
		forge.Hook{Kind: forge.HookPull, Branch: "main", Commit: "beef", Pull: 3},
	},
	"gitlab note": {forge.GitLab, "Note Hook", `{}`, forge.Hook{}},
	"gitea push":  {forge.Gitea, "push", `{"ref":"refs/heads/main","after":"c0ffee"}`, forge.Hook{Kind: forge.HookPush, Branch: "main", Commit: "c0ffee"}},
	"gitea pull": {
		forge.Gitea, "pull_request", `{"action":"opened","number":2,"pull_request":{"head":{"sha":"beef"},"base":{"ref":"main"}}}`,
		forge.Hook{Kind: forge.HookPull, Branch: "main", Commit: "beef", Pull: 2},
	},
}

// proof is the header by which a forge shows that it knows the secret.
func proof(kind forge.Kind, key, body []byte) (name, value string) {
	switch kind {
	case forge.GitHub:
		return "X-Hub-Signature-256", "sha256=" + sign(key, body)
	case forge.GitLab:
		return "X-Gitlab-Token", string(key)
	default:
		return "X-Gitea-Signature", sign(key, body)
	}
}

var events = map[forge.Kind]string{forge.GitHub: "X-GitHub-Event", forge.GitLab: "X-Gitlab-Event", forge.Gitea: "X-Gitea-Event"}

func TestSignedHooksAreRead(t *testing.T) {
	t.Parallel()
	for name, c := range hooks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by, code := proof(c.kind, secret, []byte(c.body))
			got, err := forge.Verify(c.kind, secret, header(by, code, events[c.kind], c.event), []byte(c.body))
			if err != nil || got != c.want {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

func TestHooksWithoutTheSecretAreRejected(t *testing.T) {
	t.Parallel()
	body := []byte(`{"ref":"refs/heads/main","after":"c0ffee"}`)
	for _, kind := range forge.Kinds() {
		by, code := proof(kind, secret, body)
		_, forged := proof(kind, []byte("another"), body)
		for name, c := range map[string]struct {
			kind   forge.Kind
			secret []byte
			header http.Header
			body   []byte
			want   errs.Code
		}{
			"none":             {kind, secret, header(), body, errs.SignatureInvalid},
			"empty":            {kind, secret, header(by, ""), body, errs.SignatureInvalid},
			"another secret":   {kind, secret, header(by, forged), body, errs.SignatureInvalid},
			"cut off":          {kind, secret, header(by, code[:len(code)-2]), body, errs.SignatureInvalid},
			"longer":           {kind, secret, header(by, code+"00"), body, errs.SignatureInvalid},
			"two":              {kind, secret, header(by, code, by, forged), body, errs.SignatureInvalid},
			"no secret is set": {kind, nil, header(by, code), body, errs.SignatureInvalid},
			"no such forge":    {"bitbucket", secret, header(by, code), body, errs.SignatureInvalid},
			"too large":        {kind, secret, header(by, code), bytes.Repeat([]byte("x"), forge.MaxHook+1), errs.BodyTooLarge},
		} {
			if _, err := forge.Verify(c.kind, c.secret, c.header, c.body); errs.CodeOf(err) != c.want {
				t.Errorf("%s, %s: %v, want %s", kind, name, err, c.want)
			}
		}
		if kind == forge.GitLab {
			continue // it signs no bodies
		}
		for name, other := range map[string]string{"one space": ` ` + string(body), "another branch": `{"ref":"refs/heads/mean","after":"c0ffee"}`, "empty": ""} {
			if _, err := forge.Verify(kind, secret, header(by, code), []byte(other)); errs.CodeOf(err) != errs.SignatureInvalid {
				t.Errorf("%s, body with %s: %v", kind, name, err)
			}
		}
	}
	// GitHub's old signature by SHA-1 proves nothing any more.
	if _, err := forge.Verify(forge.GitHub, secret, header("X-Hub-Signature", "sha1=00"), body); errs.CodeOf(err) != errs.SignatureInvalid {
		t.Errorf("by SHA-1: %v", err)
	}
}

func TestSignedNonsenseIsABadRequest(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "payload=%7B%7D", `{"ref":7}`, `[]`} {
		by, code := proof(forge.GitHub, secret, []byte(body))
		if _, err := forge.Verify(forge.GitHub, secret, header(by, code, "X-GitHub-Event", "push"), []byte(body)); errs.CodeOf(err) != errs.BadRequest {
			t.Errorf("%q: %v", body, err)
		}
	}
}

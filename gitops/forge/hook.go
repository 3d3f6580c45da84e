package forge

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// HookKind is the event type of a webhook.
type HookKind string

// Webhooks that start a poll. All others are accepted and ignored.
const (
	HookPush HookKind = "push"
	HookPull HookKind = "pull"
)

// Hook is the reason for an immediate poll. It is a hint: the poll reads the repository and the
// forge. A repeated or late webhook therefore costs one poll and has no other effect.
type Hook struct {
	Kind   HookKind
	Branch string // that was pushed to, or that the pull request goes to
	Commit string // empty where a branch was deleted
	Pull   int
	Pusher Pusher // of a push
}

// Pusher is the user who has pushed or merged, as the forge reports.
type Pusher struct{ Login, Email string }

// MaxHook is the most of a hook's body that is read.
const MaxHook = 256 << 10

// signature describes how a forge proves that it knows the secret: by a MAC over the body or, on
// GitLab, by repeating the secret.
type signature struct {
	header, prefix string
	event          string
	repeated       bool
}

// GitHub: docs.github.com/webhooks, "Validating webhook deliveries". GitLab: docs.gitlab.com,
// "Webhooks", secret token. Gitea: docs.gitea.com, "Webhooks"; it sends GitHub's headers as well,
// which are ignored.
var signatures = map[Kind]signature{
	GitHub: {header: "X-Hub-Signature-256", prefix: "sha256=", event: "X-GitHub-Event"},
	GitLab: {header: "X-Gitlab-Token", event: "X-Gitlab-Event", repeated: true},
	Gitea:  {header: "X-Gitea-Signature", event: "X-Gitea-Event"},
}

// Verify checks the signature of a webhook and decodes it. A valid webhook of another type returns
// the zero Hook.
func Verify(kind Kind, secret []byte, h http.Header, body []byte) (Hook, error) {
	s, ok := signatures[kind]
	switch {
	case !ok || len(secret) == 0:
		return Hook{}, errs.New(errs.SignatureInvalid, "the source accepts no webhooks").Try("give it a webhookSecretRef")
	case len(body) > MaxHook:
		return Hook{}, errs.New(errs.BodyTooLarge, "a hook has at most %d KiB", MaxHook>>10)
	case !s.valid(secret, h.Values(s.header), body):
		return Hook{}, errs.New(errs.SignatureInvalid, "the signature of the webhook is missing or not valid").
			Try("compare the secret at the forge with the source's webhookSecretRef")
	}
	read := map[string]func([]byte) (Hook, error){
		"push": readPush, "Push Hook": readPush, "pull_request": readPull, "Merge Request Hook": readMerge,
	}[h.Get(s.event)]
	if read == nil {
		return Hook{}, nil
	}
	hook, err := read(body)
	if err != nil {
		return Hook{}, errs.New(errs.BadRequest, "this is signed, and no hook in JSON").Try("choose application/json at the forge").Because(err)
	}
	return hook, nil
}

// valid accepts exactly one header. With two, a proxy before us might choose the other one.
func (s signature) valid(secret []byte, given []string, body []byte) bool {
	if len(given) != 1 {
		return false
	}
	if s.repeated {
		// Compare hashes: they have equal length, so the time of the comparison reveals nothing
		// about the secret.
		want, got := sha256.Sum256(secret), sha256.Sum256([]byte(given[0]))
		return subtle.ConstantTimeCompare(want[:], got[:]) == 1
	}
	code, ok := strings.CutPrefix(given[0], s.prefix)
	got, err := hex.DecodeString(code)
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return ok && err == nil && hmac.Equal(mac.Sum(nil), got)
}

func readPush(body []byte) (Hook, error) {
	var push struct {
		Ref, After string
		Pusher     struct{ Login, Name, Email string }
		Sender     struct{ Login, Email string }
		UserName   string `json:"user_username"` // GitLab
		UserEmail  string `json:"user_email"`
	}
	if err := json.Unmarshal(body, &push); err != nil {
		return Hook{}, err
	}
	branch, ok := strings.CutPrefix(push.Ref, "refs/heads/")
	if !ok { // a tag
		return Hook{}, nil
	}
	if strings.Trim(push.After, "0") == "" {
		push.After = ""
	}
	return Hook{Kind: HookPush, Branch: branch, Commit: push.After, Pusher: Pusher{
		Login: cmp.Or(push.Sender.Login, push.Pusher.Login, push.Pusher.Name, push.UserName),
		Email: cmp.Or(push.Pusher.Email, push.Sender.Email, push.UserEmail),
	}}, nil
}

func readPull(body []byte) (Hook, error) {
	var pull struct {
		Number int
		Pull   struct {
			Head struct{ SHA string }
			Base struct{ Ref string }
		} `json:"pull_request"`
	}
	if err := json.Unmarshal(body, &pull); err != nil {
		return Hook{}, err
	}
	return Hook{Kind: HookPull, Branch: pull.Pull.Base.Ref, Commit: pull.Pull.Head.SHA, Pull: pull.Number}, nil
}

func readMerge(body []byte) (Hook, error) {
	var merge struct {
		About struct {
			IID        int
			Target     string `json:"target_branch"`
			LastCommit struct {
				ID string
			} `json:"last_commit"`
		} `json:"object_attributes"`
	}
	if err := json.Unmarshal(body, &merge); err != nil {
		return Hook{}, err
	}
	return Hook{Kind: HookPull, Branch: merge.About.Target, Commit: merge.About.LastCommit.ID, Pull: merge.About.IID}, nil
}

package redact_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/redact"
)

func TestSecretGoesByTheName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"secret": true, "client_secret": true, "clientSecret": true, "secret_hash": true, "Token": true, "refresh_token": true, "access-token": true,
		"password": true, "newPassword": true, "passphrase": true, "Authorization": true, "Set-Cookie": true, "cookie": true,
		"ssh_private_key": true, "ssh_private_key_pem": true, "privateKey": true, "api_key": true, "DATABASE_URL": true, "signing_key": true,

		"": false, "name": false, "key": false, "public_key": false, "ssh_key": false, "fingerprint": false, "tokenizer": false, "secretary": false,
		"token_id": false, "secret_name": false, "token_type": false, "api_key_id": false, "password_changed_at": false, "id": false, "email": false,
	} {
		if got := redact.Secret(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestJSONIsMaskedAtAnyDepth(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"name":"n","token":"s"}`:                             `{"name":"n","token":"[redacted]"}`,
		`{"a":[{"b":{"password":"s"}},1]}`:                     `{"a":[{"b":{"password":"[redacted]"}},1]}`,
		`{"secrets":{"x":"s","y":["s"]}}`:                      `{"secrets":"[redacted]"}`,
		`{"token":null,"n":12345678901234567890,"password":0}`: `{"n":12345678901234567890,"password":"[redacted]","token":null}`,
		`"a text"`:                 `"a text"`,
		`[]`:                       `[]`,
		`null`:                     `null`,
		`{"html":"\u003cb\u003e"}`: `{"html":"\u003cb\u003e"}`,
	} {
		got, err := redact.JSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	if _, err := redact.JSON([]byte(`{`)); err == nil {
		t.Error("half a document was accepted")
	}
}

type credentials struct {
	User     string
	Password string
	Inner    map[string]any `json:"inner"`
}

// A secret is planted in every shape that an attribute may have.
func TestLogsShowNoSecret(t *testing.T) {
	t.Parallel()
	const canary, shown = "canary-7f3a", "shown-11aa"
	for name, handler := range map[string]func(*bytes.Buffer, *slog.HandlerOptions) slog.Handler{
		"json": func(b *bytes.Buffer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(b, o) },
		"text": func(b *bytes.Buffer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(b, o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			id := uuid.MustParse("01990000-0000-7000-8000-000000000001")
			log := slog.New(handler(&out, &slog.HandlerOptions{ReplaceAttr: redact.Attr, AddSource: true}))
			c := credentials{User: shown, Password: canary, Inner: map[string]any{"token": canary, "roles": []string{shown}}}
			log.With("client_secret", canary).WithGroup("http").Info("constant",
				"cookie", canary, slog.Group("request", "authorization", canary, "path", shown), "email", canary, "user_email", canary,
				"value", c, "pointer", &c, "list", []credentials{c}, "password", []byte(canary), "token", slog.AnyValue(c),
				"err", errors.New(shown), "id", id, "n", 1, "nothing", nil, "odd", func() {}, "roles", []string{shown})
			text := out.String()
			if strings.Contains(text, canary) {
				t.Errorf("the secret is in\n%s", text)
			}
			if n := strings.Count(text, shown); n != 9 {
				t.Errorf("%d of 9 innocent values are in\n%s", n, text)
			}
			for _, want := range []string{id.String(), "redact_test.go", "constant"} {
				if !strings.Contains(text, want) {
					t.Errorf("%s is not in\n%s", want, text)
				}
			}
		})
	}
}

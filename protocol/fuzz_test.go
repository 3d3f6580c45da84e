package protocol_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

const (
	gpu  = "GPU-01234567-89ab-cdef-0123-456789abcdef"
	line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl tenant"
)

// seeds are one good task of each type.
func seeds() map[protocol.Type]string {
	return map[protocol.Type]string{
		protocol.ProvisionUser: `{"user":"t-1","uid":200001,"public_keys":["` + line + `"],"gpus":["` + gpu + `"],"limits":{"cpu_weight":100},"revoked":[1,2],"login_from":"loopback","forwarding":"local"}`,
		protocol.RevokeUser:    `{"user":"t-1","uid":200001,"gpus":["` + gpu + `"],"mode":"purge"}`,
		protocol.RotateKeys:    `{"user":"t-1","uid":200001,"public_keys":[],"gpus":["` + gpu + `"]}`,
		protocol.Probe:         `{}`,
		protocol.HealthCheck:   `{"level":1}`,
		protocol.GPUReset:      `{"gpu":"` + gpu + `","expect_idle":true}`,
		protocol.AgentUpdate:   `{"version":"1.2.3","digest":"` + strings.Repeat("0f", 32) + `","size":1,"metadata":"","signature":""}`,
	}
}

// checkParams opens the parameters of a signed envelope, as an agent does, and checks the invariants of accepted
// parameters: INV-44.
func checkParams(t *testing.T, kind, params string) (accepted bool) {
	t.Helper()
	e := protocol.Envelope{Type: protocol.Type(kind), Params: json.RawMessage(params), Allocation: ids.New[ids.Allocation](), Slots: []string{gpu}}
	allocation, err := e.AllocationParams()
	if err != nil {
		if _, coded := errors.AsType[*protocol.RejectedError](err); !coded {
			t.Errorf("%q %q is rejected without a code: %v", kind, params, err)
		}
		return false
	}
	if e.Type.Scope() == "" {
		t.Errorf("type %q was accepted", kind)
	}
	if again, err := json.Marshal(e.Params); err != nil || string(again) != params {
		t.Errorf("%q was accepted in a form that is not canonical", params)
	}
	if e.Type.Scope() != protocol.ScopeAllocation {
		return true
	}
	plain := func(s string) bool { return !strings.ContainsAny(s, "\n\r\x00") }
	switch {
	case allocation.UID < 200000:
		t.Errorf("uid %d", allocation.UID)
	case strings.Trim(allocation.User, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || allocation.User == "" || len(allocation.User) > 31:
		t.Errorf("user %q", allocation.User)
	case !slices.Equal(allocation.GPUs, e.Slots):
		t.Errorf("GPUs %q", allocation.GPUs)
	case slices.ContainsFunc(append(allocation.PublicKeys, allocation.UserCA...), func(k string) bool {
		return !plain(k) || !strings.Contains(k, "ssh-") && !strings.Contains(k, "ecdsa-") && !strings.Contains(k, "sk-")
	}):
		t.Errorf("keys %q", allocation.PublicKeys)
	}
	return true
}

func TestINV44EveryTypeHasItsForm(t *testing.T) {
	t.Parallel()

	good := seeds()
	if len(good) != len(protocol.TaskTypes()) {
		t.Fatalf("%d seeds for %d types", len(good), len(protocol.TaskTypes()))
	}
	for kind, params := range good {
		if !checkParams(t, string(kind), params) {
			t.Errorf("%s is rejected", kind)
		}
		for other := range good {
			if kind == protocol.RotateKeys && other == protocol.ProvisionUser {
				continue // a provisioning may leave out all that a rotation lacks
			}
			if other != kind && checkParams(t, string(other), params) {
				t.Errorf("%s accepts the parameters of %s", other, kind)
			}
		}
	}
}

// A bounded run of what FuzzParams does without end.
func TestINV44MutatedParameters(t *testing.T) {
	t.Parallel()

	r := rand.New(rand.NewPCG(44, 44))
	pieces := []string{`"`, `,`, `:`, `{`, `}`, `[`, `]`, "\\", "\n", "\x00", "0", "-1", "1e9", "null", "true", `"user":`, "../", "$(id)", "root", ` `, `\u0000`, "command=\\\"sh\\\" "}
	for _, params := range seeds() {
		for range 3000 {
			text := []byte(params)
			for range 1 + r.IntN(4) {
				at := r.IntN(len(text) + 1)
				switch r.IntN(3) {
				case 0:
					text = slices.Insert(text, at, []byte(pieces[r.IntN(len(pieces))])...)
				case 1:
					if at < len(text) {
						text = slices.Delete(text, at, min(len(text), at+1+r.IntN(5)))
					}
				case 2:
					if at < len(text) {
						text[at] ^= 1 << r.IntN(8)
					}
				}
			}
			for kind := range seeds() {
				checkParams(t, string(kind), string(text))
			}
		}
	}
}

func FuzzParams(f *testing.F) {
	for kind, params := range seeds() {
		f.Add(string(kind), params)
	}
	f.Add("node.exec", `{"command":"sh"}`)
	f.Fuzz(func(t *testing.T, kind, params string) { checkParams(t, kind, params) })
}

// FuzzSigned: a statement, a task or a response without a valid signature has no effect, whatever it
// contains. The keys are those of an attacker, too, so that the text behind the signature is read.
func FuzzSigned(f *testing.F) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{`{"v":2,"kid":"0001"}`, `{"v":2,"kid":"0001","node_id":"01990f3e-0000-7000-8000-000000000001","sequence":1,"task_keys":{}}`, "{", ""} {
		f.Add([]byte(text))
	}
	keys := map[string][]byte{"0001": public}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, s := range []protocol.Signed{{Body: body, Signature: ed25519.Sign(private, body)}, {Body: body, Signature: make([]byte, ed25519.SignatureSize)}} {
			e, err := protocol.Open(s, keys)
			if err == nil && (e.Kid != "0001" || s.Signature[0] == 0 && s.Signature[1] == 0 && s.Signature[2] == 0) {
				t.Errorf("%q: %+v", body, e)
			}
			_, _ = protocol.OpenKeySet(s, keys)
			_, _ = protocol.OpenReportAck(s, keys)
		}
	})
}

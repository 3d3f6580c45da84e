package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// The rules for logins travel in both tasks, and unknown ones are rejected. A rotation replaces them.
func TestAccessInTasks(t *testing.T) {
	t.Parallel()
	const gpu = "GPU-0000aaaa-0000-0000-0000-000000000001"
	task := func(kind protocol.Type, rules string) protocol.Envelope {
		return protocol.Envelope{
			Type: kind, Allocation: ids.New[ids.Allocation](), Slots: []string{gpu},
			Params: json.RawMessage(`{"user":"u7","uid":200007,"public_keys":[],"gpus":["` + gpu + `"]` + rules + `}`),
		}
	}
	both := protocol.Access{LoginFrom: protocol.FromLoopback, Forwarding: protocol.ForwardLocal}
	for _, kind := range []protocol.Type{protocol.ProvisionUser, protocol.RotateKeys} {
		for rules, want := range map[string]protocol.Access{
			"": {}, `,"login_from":"loopback","forwarding":"local"`: both, `,"forwarding":"local"`: {Forwarding: protocol.ForwardLocal},
		} {
			if o, err := task(kind, rules).AllocationParams(); err != nil || o.Access != want {
				t.Errorf("%s %s: %+v, %v", kind, rules, o.Access, err)
			}
		}
		for _, rules := range []string{`,"login_from":"*"`, `,"forwarding":"yes"`, `,"forwarding":"remote"`, `,"login_from":true`, `,"forwarding":""`, `,"forwarding":"local","login_from":"loopback"`} {
			if _, err := task(kind, rules).AllocationParams(); protocol.CodeOf(err) != protocol.ParamsInvalid {
				t.Errorf("%s %s: %v", kind, rules, err)
			}
		}
	}
	o, err := task(protocol.ProvisionUser, `,"login_from":"loopback","forwarding":"local"`).AmendedBy(task(protocol.RotateKeys, ""))
	if err != nil || o.Access != (protocol.Access{}) {
		t.Errorf("rotated: %+v, %v", o.Access, err)
	}
}

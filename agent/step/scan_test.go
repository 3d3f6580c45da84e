package step_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// Each object of the user, the uid or the GPUs is found by itself, and what belongs to others is not.
func TestRemaining(t *testing.T) {
	t.Parallel()
	o := protocol.AllocationParams{User: "u7", UID: 200007, GPUs: []string{"GPU-a"}}
	clean := step.State{GPUs: []step.Device{{UUID: "GPU-a"}, {UUID: "GPU-b", Users: []string{"u8"}, Dirty: true}}}
	for name, c := range map[string]struct {
		edit func(*step.State)
		want []string
	}{
		"nothing": {func(*step.State) {}, nil},
		"of others": {func(s *step.State) {
			s.Accounts = []step.Account{{Name: "u8", UID: 200008}}
			s.Processes = []step.Process{{PID: 9, UID: 200008, GPU: "GPU-b", Command: "train"}}
			s.Files = []step.File{{Path: "/tmp/b", UID: 200008}}
		}, nil},
		"the account":       {func(s *step.State) { s.Accounts = []step.Account{{Name: "u7", UID: 200007}} }, []string{"account u7 with uid 200007 and 0 keys"}},
		"its name alone":    {func(s *step.State) { s.Accounts = []step.Account{{Name: "u7", UID: 5}} }, []string{"account u7 with uid 5 and 0 keys"}},
		"its uid alone":     {func(s *step.State) { s.Accounts = []step.Account{{Name: "x", UID: 200007}} }, []string{"account x with uid 200007 and 0 keys"}},
		"a process":         {func(s *step.State) { s.Processes = []step.Process{{PID: 9, UID: 200007, Command: "sleep"}} }, []string{"process 9 (sleep)"}},
		"a process of root": {func(s *step.State) { s.Processes = []step.Process{{PID: 9, GPU: "GPU-a", Command: "x"}} }, []string{"process 9 (x) of uid 0 uses GPU GPU-a"}},
		"a file":            {func(s *step.State) { s.Files = []step.File{{Path: "/tmp/a", UID: 200007}} }, []string{"/tmp/a"}},
		"an open GPU":       {func(s *step.State) { s.GPUs[0].Users = []string{"u8"} }, []string{"GPU GPU-a is open to [u8]"}},
		"its other GPU":     {func(s *step.State) { s.GPUs[1].Users = []string{"u7"} }, []string{"GPU-b"}},
		"a dirty GPU":       {func(s *step.State) { s.GPUs[0].Dirty = true }, []string{"GPU GPU-a has memory that was not overwritten"}},
		"a lost GPU":        {func(s *step.State) { s.GPUs = s.GPUs[1:] }, []string{"GPU GPU-a is not on this node"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := clean
			s.GPUs = slices.Clone(clean.GPUs)
			c.edit(&s)
			got := step.Remaining(s, o)
			if len(got) != len(c.want) || len(got) > 0 && !strings.Contains(got[0], c.want[0]) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// An account with the name and another uid is a difference: the tenant would own the files of that uid.
func TestDifferencesOfAnAccount(t *testing.T) {
	t.Parallel()
	o := protocol.AllocationParams{User: "u7", UID: 200007}
	for _, c := range []struct {
		accounts []step.Account
		want     string
	}{
		{nil, "account: u7 is missing, expected with uid 200007"},
		{[]step.Account{{Name: "u7", UID: 5}}, "account: u7 has uid 5, expected 200007"},
	} {
		if got := step.Differences(step.State{Accounts: c.accounts}, o); !slices.Contains(got, c.want) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

package policies

import "testing"

// No role of the platform reads what users have displayed on their screens, or the logs of their allocations: not by "*", and not
// by a Role object.
func TestWithheldOperations(t *testing.T) {
	t.Parallel()
	declared := NewRoleTable(1, map[string][]string{"root": {"*"}, "reader": {"getTerminalRecording", "getAllocationLogs"}})
	for _, operation := range []string{"listTerminalRecordings", "getTerminalRecording", "getAllocationLogs"} {
		for _, r := range Roles() {
			want := r.Name == "tenant.owner" || r.Name == "project.admin"
			if operation != "getAllocationLogs" && Allows(r.Name, operation) != want {
				t.Errorf("%s, %s: want %v", r.Name, operation, want)
			}
		}
		if declared.Grants("root", operation) || declared.Grants("reader", operation) || declared.Grants("admin", operation) {
			t.Errorf("a role of the platform may call %s", operation)
		}
		if CheckRole("reader", []string{operation}) == nil {
			t.Errorf("a Role object may list %s", operation)
		}
	}
	if !declared.Grants("root", "listTenants") {
		t.Error("the other operations are withheld, too")
	}
}

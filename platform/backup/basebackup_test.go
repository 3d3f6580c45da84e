package backup

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// TestPasswordsAreNoArguments: every user of the computer sees the arguments of a process.
func TestPasswordsAreNoArguments(t *testing.T) {
	t.Parallel()
	for database, want := range map[string][2]string{
		"postgres://u:hidden@h/d":                                     {"postgres://u@h/d", "hidden"},
		"postgres://u@h/d?password=hidden":                            {"postgres://u@h/d", "hidden"},
		"postgres://u:x@h/d?sslmode=require&pass%77ord=hid%20den":     {"postgres://u@h/d?sslmode=require", "hid den"},
		"postgres:///d?password=hid+den&user=u&options=-c%20jit%3Don": {"postgres:///d?user=u&options=-c%20jit%3Don", "hid+den"},
		"postgresql://h/d":                                            {"postgresql://h/d", ""},
	} {
		address, password, err := withoutPassword(database)
		if got := [2]string{address, password}; err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", database, got, err, want)
		}
		if set := slices.Contains(environment(password), "PGPASSWORD="+password); set != (password != "") {
			t.Errorf("%s: the tool has the password: %v", database, set)
		}
	}
	for _, database := range []string{"postgres://h/d?sslpassword=hidden", "postgres://h/d?%73slpassword=hidden", "postgres://h/d?password=%zz", "user=u password=hidden", ""} {
		address, _, err := withoutPassword(database)
		if errs.CodeOf(err) != errs.ValidationError || strings.Contains(fmt.Sprint(address, err), "hidden") {
			t.Errorf("%s: %s, %v", database, address, err)
		}
	}
}

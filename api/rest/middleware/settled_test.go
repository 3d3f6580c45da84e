package middleware

import (
	"fmt"
	"testing"
)

// The oldest are forgotten first, and the latest never at once.
func TestSettledKeysAreBounded(t *testing.T) {
	t.Parallel()

	name := func(i int) keyName { return keyName{key: fmt.Sprint(i)} }
	var a settled
	for i := range 2*maxSettled + 1 {
		if a.has(name(i)) {
			t.Fatalf("key %d was never added", i)
		}
		a.add(name(i))
	}
	for i, want := range map[int]bool{0: false, maxSettled - 1: false, maxSettled: true, 2 * maxSettled: true} {
		if a.has(name(i)) != want {
			t.Errorf("key %d: want %t", i, want)
		}
	}
	if n := len(a.young) + len(a.old); n > 2*maxSettled {
		t.Errorf("%d keys are kept", n)
	}
}

package middleware

import (
	"fmt"
	"testing"
)

// The oldest are forgotten first, and the latest never at once.
func TestRepeatCacheIsBounded(t *testing.T) {
	t.Parallel()

	name := func(i int) keyName { return keyName{key: fmt.Sprint(i)} }
	var a repeatCache
	for i := range 2*maxRepeats + 1 {
		if a.contains(name(i)) {
			t.Fatalf("key %d was never added", i)
		}
		a.add(name(i))
	}
	for i, want := range map[int]bool{0: false, maxRepeats - 1: false, maxRepeats: true, 2 * maxRepeats: true} {
		if a.contains(name(i)) != want {
			t.Errorf("key %d: want %t", i, want)
		}
	}
	if n := len(a.young) + len(a.old); n > 2*maxRepeats {
		t.Errorf("%d keys are stored", n)
	}
}

package middleware

import "testing"

func TestTraces(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for sent, want := range map[string]bool{
		good:                       true,
		"01" + good[2:] + "-later": true,
		good + "-later":            false, // version 00 ends with the flags
		"ff" + good[2:]:            false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01": false,
		"": false, "00-": false, good[:54]: false, "00_" + good[3:]: false,
	} {
		if isTrace(sent) != want {
			t.Errorf("%q: %t", sent, !want)
		}
	}
}

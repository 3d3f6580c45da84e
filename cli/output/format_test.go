package output

import (
	"testing"
	"time"
)

// A length of time may name days; what is no length of time, or longer than a century, is an error.
func TestParseSpan(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{"90m": 90 * time.Minute, "7d": 7 * day, "1d 12h": day + 12*time.Hour, "36500d": 36500 * day} {
		if got, err := ParseSpan(text); err != nil || got != want {
			t.Errorf("%s is %s: %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "7dx", "1d-2h", "-2h", "36501d", "99999999999d", "1.5d"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

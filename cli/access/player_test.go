package access

import (
	"strings"
	"testing"
	"time"
)

// Commands that act outside of the screen are left out, wherever the recording divides them.
func TestPlayersLeaveOutCommands(t *testing.T) {
	t.Parallel()
	const text = "a\x1b[31mb\x1b]52;c;c3VkbyBybSAtcmYK\x07c\x1b]0;title\x1b\\d\x1bP+q544e\x1b\\e\x1b_x\x1b\\f\x05g\u009d52;c;aaaa\x18h\x1b]52;c;x\x1b[32mi\x1b\x1b[1mj\x1b\x07]52;c;x\x07k\x1b\x7f]52;c;x\x07l\x1b\u009d]52;c;x\x07m\x1b\x18]n"
	const want = "a\x1b[31mbcdefg52;c;aaaa\x18h\x1b[32mi\x1b[1mjklm]n"
	for cut := range len(text) {
		if text[cut] >= 0x80 {
			continue // an event contains whole characters
		}
		var s sanitizer
		if got := s.clean(text[:cut]) + s.clean(text[cut:]); got != want {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
}

func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		speed   float64
		idle    time.Duration
		seconds float64
		want    time.Duration
	}{
		{1, 2 * time.Second, 1.5, 1500 * time.Millisecond},
		{1, 2 * time.Second, 3600, 2 * time.Second},
		{4, 2 * time.Second, 4, time.Second},
		{1, 0, 3600, time.Hour},
	} {
		if got := (&player{speed: c.speed, idle: c.idle}).pause(c.seconds); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
}

func TestPlayPrintsTheOutput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	cast := "{\"version\": 2, \"width\": 80, \"height\": 24}\n[0.1, \"o\", \"grüße\\r\\n\"]\n[0.2, \"r\", \"90x30\"]\n[0.3, \"i\", \"typed\"]\n[3600, \"o\", \"end\"]\n"
	if err := (&player{out: &out, speed: 1, idle: time.Millisecond}).play(t.Context(), strings.NewReader(cast)); err != nil || out.String() != "grüße\r\nend" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := (&player{out: &out, speed: 1}).play(t.Context(), strings.NewReader("{}\n[0.1, 7]\n")); err == nil {
		t.Error("a broken recording is played")
	}
}

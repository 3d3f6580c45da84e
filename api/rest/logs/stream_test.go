package logs

import "testing"

// A client follows a log with a new token after the old one has expired, and not after the loss of the right.
func TestReasonsOfTheEnd(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]string{
		"complete": "complete", "token_expired: the token has expired": "lost", "token_revoked: the token is revoked": "right_lost",
		"forbidden: another role": "right_lost", "not_found: no such node": "right_lost", "not_active: released": "allocation_ended",
		"slot_busy: this node has 128 open logs already": "lost", "the connection of the node ended": "lost",
	} {
		if got := reasonOf(end); got != want {
			t.Errorf("%q: %s, want %s", end, got, want)
		}
	}
}

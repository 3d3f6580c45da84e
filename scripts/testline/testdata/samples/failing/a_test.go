package failing

import "testing"

func TestGood(t *testing.T) { t.Log("quiet words") }

func TestBad(t *testing.T) {
	t.Run("sub", func(t *testing.T) { t.Error("loud words") })
}

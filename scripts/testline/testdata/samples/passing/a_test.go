package passing

import "testing"

func TestGood(t *testing.T) {
	t.Log("quiet words")
	t.Run("sub", func(t *testing.T) {})
}

func TestOther(t *testing.T) {}

func TestSkipped(t *testing.T) { t.Skip("not today") }

package flaky

import (
	"os"
	"testing"
)

func TestGood(t *testing.T) {}

func TestParent(t *testing.T) {
	t.Run("even", func(t *testing.T) {})
	t.Run("odd one", func(t *testing.T) {
		if _, err := os.Stat("been"); err == nil {
			return
		}
		if err := os.WriteFile("been", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Error("not the first time")
	})
}

func TestLast(t *testing.T) {}

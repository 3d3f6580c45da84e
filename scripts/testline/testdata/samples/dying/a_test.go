package dying

import "testing"

func TestGood(t *testing.T) {}

func TestDies(t *testing.T) { panic("out of nothing") }

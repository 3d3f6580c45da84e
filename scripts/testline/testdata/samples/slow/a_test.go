package slow

import (
	"testing"
	"time"
)

func TestFast(*testing.T) {}

func TestSlow(*testing.T) { time.Sleep(time.Minute) }

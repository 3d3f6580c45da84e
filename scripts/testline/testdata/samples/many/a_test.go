package many

import "testing"

func Test1(t *testing.T) { t.Error("no") }
func Test2(t *testing.T) { t.Error("no") }
func Test3(t *testing.T) { t.Error("no") }
func Test4(t *testing.T) { t.Error("no") }
func Test5(t *testing.T) { t.Error("no") }
func Test6(t *testing.T) { t.Error("no") }

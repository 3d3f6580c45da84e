package scan

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// Limits of a scan in what another tenant owns: its folders, and the descriptors of its processes. What is
// beyond them counts against its owner: the scan leaves it, and the release of this tenant continues.
const (
	mostOfOther = 100_000
	timeOfOther = time.Second
)

// budget counts what the scan has spent on one other tenant.
type budget struct {
	entries int
	time    time.Duration
	over    bool
}

func (s *search) isOther(uid int) bool { return uid != s.uid && hostos.IsTenant(uid) }

// isOver reports whether the scan leaves what the uid owns.
func (s *search) isOver(uid int) bool { return s.spent[uid] != nil && s.spent[uid].over }

// over lists the tenants whose budget is used up.
func (s *search) over() []int {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.spent)), func(uid int) bool { return !s.isOver(uid) })
}

// spend counts entries of another tenant. It does nothing for other users.
func (s *search) spend(uid, entries int, since time.Time) {
	if !s.isOther(uid) {
		return
	}
	b := s.spent[uid]
	if b == nil {
		b = &budget{}
		s.spent[uid] = b
	}
	b.entries += entries
	b.time += s.clock.Now().Sub(since)
	b.over = b.over || b.entries > mostOfOther || b.time > timeOfOther
}

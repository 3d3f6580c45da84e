package backup

import (
	"context"
	"slices"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
)

// step is a timeline of a recovery. PostgreSQL reads it from the segment first up to that of the next step.
type step struct {
	timeline uint32
	first    uint64
}

// timelines returns the timelines that a recovery follows, from that of the backup to that of the point.
func (s *Service) timelines(ctx context.Context, m manifest.Manifest, p Point, operator seal.Operator, names []string) ([]step, error) {
	path := []step{{m.Timeline, m.Start.Number(m.SegmentBytes)}}
	target := p.Timeline
	if target == 0 {
		target = latest(m.Timeline, names)
	}
	if target == m.Timeline {
		return path, nil
	}
	text, err := s.Fetch(ctx, m.System, lsn.HistoryName(target), operator)
	if err != nil {
		return nil, err
	}
	forks, err := lsn.ParseHistory(text)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(forks, func(f lsn.Fork) bool { return f.Timeline == m.Timeline })
	if i < 0 {
		return nil, notChild(nil)
	}
	for ; i < len(forks); i++ {
		next := target
		if i+1 < len(forks) {
			next = forks[i+1].Timeline
		}
		// The next timeline has a copy of the segment in which it begins.
		path = append(path, step{next, forks[i].At.Number(m.SegmentBytes)})
	}
	return path, nil
}

func notChild(cause error) error {
	return errs.New(errs.Conflict, "the timeline does not begin with this backup").Try("--timeline selects another one").Because(cause)
}

// latest returns the timeline that PostgreSQL selects: it counts up to the first one without a history.
func latest(from uint32, names []string) uint32 {
	for slices.Contains(names, lsn.HistoryName(from+1)) {
		from++
	}
	return from
}

// checkWAL searches for a gap along the timelines. A recovery to the end of the WAL would end at it without an error.
func checkWAL(m manifest.Manifest, p Point, path []step, names []string) error {
	have, final := map[string]bool{}, path[len(path)-1]
	last := max(final.first, 1) - 1 // nothing of the final timeline is stored: up to the fork
	for _, name := range names {
		have[name] = true
		if !lsn.IsSegment(name) {
			continue
		}
		if timeline, number := lsn.Split(name, m.SegmentBytes); timeline == final.timeline {
			last = max(last, number)
		}
	}
	for _, name := range m.Segments {
		if !have[name] {
			return errs.New(errs.NotFound, "segment %s of WAL is missing in the target, and backup %s cannot be restored without it", name, m.ID).
				Try("use another copy of the target, or an older backup")
		}
	}
	if p.LSN != 0 {
		last = min(last, p.LSN.Number(m.SegmentBytes))
	}
	for n := path[0].first; n <= last && p.At.IsZero(); n++ { // PostgreSQL reports a time that it does not reach
		if name := lsn.Name(timelineOf(path, n), n, m.SegmentBytes); !have[name] {
			return errs.New(errs.NotFound, "segment %s of WAL is missing in the target, and later ones exist", name).
				Try("--lsn %s restores up to the gap", lsn.LSN(n*m.SegmentBytes-1))
		}
	}
	return nil
}

// timelineOf returns the timeline from which PostgreSQL reads a segment.
func timelineOf(path []step, number uint64) (timeline uint32) {
	for _, one := range path {
		if number >= one.first {
			timeline = one.timeline
		}
	}
	return timeline
}

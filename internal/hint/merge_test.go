package hint_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuaas/gpuaas/internal/hint"
)

// sent records what would leave the process, and when.
type sent struct {
	mu    sync.Mutex
	count map[string]int
	last  map[string]time.Time
}

func (s *sent) send(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[topic]++
	s.last[topic] = time.Now()
}

func newSent() *sent { return &sent{count: map[string]int{}, last: map[string]time.Time{}} }

// The first hint is not delayed, and the last one of a burst is not lost: the commit before it may be the only one that
// a listener has not read.
func TestABurstIsSentAtItsStartAndAfterItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSent()
		bus := &hint.Bus{Forward: hint.Merge(t.Context(), s.send)}
		time.Sleep(time.Second)
		began := time.Now()
		bus.Send("outbox")
		synctest.Wait()
		if s.count["outbox"] != 1 || !s.last["outbox"].Equal(began) {
			t.Fatalf("the first hint: %+v", s)
		}
		var end time.Time
		for range 10_000 {
			time.Sleep(10 * time.Microsecond)
			bus.Send("outbox")
			end = time.Now()
		}
		time.Sleep(time.Second)
		if n := s.count["outbox"]; n < 45 || n > 55 {
			t.Errorf("%d messages for hints of 100 ms", n)
		}
		if last := s.last["outbox"]; last.Before(end) || last.Sub(end) > 3*time.Millisecond {
			t.Errorf("the last message is from %s after the last hint", last.Sub(end))
		}
	})
}

func TestEachTopicIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSent()
		forward := hint.Merge(t.Context(), s.send)
		for n := range 1_000 {
			forward(fmt.Sprint("node.", n))
			forward(fmt.Sprint("node.", n))
		}
		time.Sleep(time.Second)
		if len(s.count) != 1_000 {
			t.Errorf("%d topics", len(s.count))
		}
		for topic, n := range s.count {
			if n > 2 {
				t.Errorf("%s was sent %d times", topic, n)
			}
		}
	})
}

// The listeners of the process itself do not wait for the merging.
func TestListenersOfTheProcessAreNotifiedAtOnce(t *testing.T) {
	t.Parallel()
	bus := &hint.Bus{Forward: hint.Merge(t.Context(), func(string) {})}
	wake, stop := bus.Listen("outbox")
	defer stop()
	for range 3 {
		bus.Send("outbox")
		select {
		case <-wake:
		default:
			t.Fatal("no wake-up")
		}
	}
}

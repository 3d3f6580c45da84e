package hint

import (
	"context"
	"sync"
	"time"
)

// mergeFor is the time in which equal topics become one. Under load a commit then causes no message of its own, and no
// listener needs two wake-ups within it.
const mergeFor = 2 * time.Millisecond

// merged has the topics to send next.
type merged struct {
	mu     sync.Mutex
	topics map[string]struct{}
	wake   chan struct{}
}

// Merge returns a function for Bus.Forward that never blocks. A goroutine sends the topics until ctx ends: at once when
// none was sent within mergeFor, and otherwise each once after it.
func Merge(ctx context.Context, send func(topic string)) func(topic string) {
	m := &merged{topics: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	go m.run(ctx, send)
	return m.add
}

func (m *merged) add(topic string) {
	m.mu.Lock()
	before := len(m.topics)
	m.topics[topic] = struct{}{}
	m.mu.Unlock()
	if before > 0 {
		return // the goroutine has been notified
	}
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *merged) run(ctx context.Context, send func(topic string)) {
	spare := map[string]struct{}{}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		spare = m.swap(spare)
		for topic := range spare {
			send(topic)
		}
		clear(spare)
		pause.Reset(mergeFor)
	}
}

// swap returns the topics, and leaves an empty map in their place.
func (m *merged) swap(empty map[string]struct{}) map[string]struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := m.topics
	m.topics = empty
	return taken
}

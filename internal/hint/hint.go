// Package hint carries wake-ups that may be lost. Whoever listens must also look
// by itself now and then; a hint only makes that look come sooner.
package hint

import "sync"

// Bus wakes the listeners of a topic. The zero value is ready to use.
type Bus struct {
	mu        sync.Mutex
	listeners map[string]map[chan struct{}]struct{}
	taps      map[*func(string)]struct{}
	// Forward, when set, also hands the topic to other processes. It must not
	// block: it runs on the caller's goroutine, after a commit.
	Forward func(topic string)
}

// Send wakes everyone who listens to topic, here and where Forward leads.
func (b *Bus) Send(topic string) {
	b.Wake(topic)
	if b.Forward != nil {
		b.Forward(topic)
	}
}

// Wake wakes the listeners in this process only.
func (b *Bus) Wake(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for tap := range b.taps {
		(*tap)(topic)
	}
	for c := range b.listeners[topic] {
		select {
		case c <- struct{}{}:
		default: // already awake, and it has not looked yet
		}
	}
}

// Listen returns a channel that receives when topic is hinted at, and a function
// that ends it. Hints that come while one is unread are merged with it.
func (b *Bus) Listen(topic string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listeners == nil {
		b.listeners = map[string]map[chan struct{}]struct{}{}
	}
	if b.listeners[topic] == nil {
		b.listeners[topic] = map[chan struct{}]struct{}{}
	}
	b.listeners[topic][c] = struct{}{}

	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners[topic], c)
		if len(b.listeners[topic]) == 0 {
			delete(b.listeners, topic)
		}
	}
}

// Tap calls each with every topic, for whoever waits for thousands of them and
// would keep a channel for each. It must not block, and not call the bus.
func (b *Bus) Tap(each func(topic string)) (off func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taps == nil {
		b.taps = map[*func(string)]struct{}{}
	}
	b.taps[&each] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.taps, &each)
	}
}

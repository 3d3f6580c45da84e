// Package hint carries wake-ups that may be lost. A listener must also poll by itself; a hint only
// makes the next poll earlier.
package hint

import "sync"

// Bus notifies the listeners of a topic. The zero value is ready to use.
type Bus struct {
	mu        sync.Mutex
	listeners map[string]map[chan struct{}]struct{}
	taps      map[*func(string)]struct{}
	// Forward, when set, also hands the topic to other processes. It must not
	// block: it runs on the caller's goroutine, after a commit.
	Forward func(topic string)
}

// Send notifies all listeners of a topic, in this process and where Forward leads.
func (b *Bus) Send(topic string) {
	b.Wake(topic)
	if b.Forward != nil {
		b.Forward(topic)
	}
}

// Wake notifies the listeners in this process only.
func (b *Bus) Wake(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for tap := range b.taps {
		(*tap)(topic)
	}
	for c := range b.listeners[topic] {
		select {
		case c <- struct{}{}:
		default: // already notified, and it has not read yet
		}
	}
}

// Listen returns a channel that receives the hints of a topic, and a function that closes it. Hints
// that arrive while one is unread are merged.
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

// Tap calls each with every topic. It is for a listener that waits for thousands of topics and
// needs no channel for each. The function must not block and must not call the bus.
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

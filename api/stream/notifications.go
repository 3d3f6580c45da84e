package stream

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Kinds of items that are no events.
const (
	kindNotification = "notification"
	kindUnread       = "unread"
)

// MostUnread limits the number of unread notifications.
const MostUnread = 100

// Notifications are the notifications of one user. The clients of a user share one reader.
type Notifications struct {
	// Topic is the hint after a change. It identifies the user.
	Topic string
	// Unread returns the unread notifications, the newest first and at most MostUnread. Its context is not that of a
	// request.
	Unread func(context.Context) ([]Notification, error)
}

// Notification is one unread notification.
type Notification struct {
	ID        uuid.UUID
	UpdatedAt time.Time
	Data      []byte // as JSON
}

// inbox has the last changes of the notifications of a user.
type inbox struct {
	stop    context.CancelFunc
	clients int

	mu      sync.Mutex
	read    bool // once
	found   map[uuid.UUID]time.Time
	lowest  uuid.UUID // of found
	changes [][]byte  // the last ones
	made    int       // number of changes ever
	unread  int
	changed chan struct{}
}

// inboxPosition is the position of a client.
type inboxPosition struct{ made, unread int }

// openInbox starts the reader of a user with the first client.
func (s *Server) openInbox(ctx context.Context, n *Notifications) (*inbox, func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.inboxes[n.Topic]
	if b == nil {
		if s.inboxes == nil {
			s.inboxes = map[string]*inbox{}
		}
		reading, stop := context.WithCancel(context.WithoutCancel(ctx))
		b = &inbox{stop: stop, changed: make(chan struct{})}
		s.inboxes[n.Topic] = b
		go s.readNotifications(reading, b, n)
	}
	b.clients++
	return b, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if b.clients--; b.clients == 0 {
			b.stop()
			delete(s.inboxes, n.Topic)
		}
	}
}

// readNotifications runs one query for each hint. The database being away ends the streams, and not this reader.
func (s *Server) readNotifications(ctx context.Context, b *inbox, n *Notifications) {
	wake, stop := s.Hints.Listen(n.Topic)
	defer stop()
	timer := time.NewTicker(valueOr(s.NotificationInterval, notificationEvery))
	defer timer.Stop()
	for {
		if unread, err := n.Unread(ctx); err == nil {
			b.update(unread)
		} else if ctx.Err() == nil {
			s.Log.WarnContext(ctx, "reading notifications for streams", slog.Any("err", err))
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-timer.C:
		}
	}
}

// update finds which notifications are new or have changed since the last query.
func (b *inbox) update(unread []Notification) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, before := make(map[uuid.UUID]time.Time, len(unread)), b.made
	for _, one := range slices.Backward(unread) { // the oldest first
		found[one.ID] = one.UpdatedAt
		at, known := b.found[one.ID]
		// One below a list that was full is not new: others were read.
		hidden := !known && len(b.found) == MostUnread && bytes.Compare(one.ID[:], b.lowest[:]) < 0
		if b.read && !hidden && (!known || !at.Equal(one.UpdatedAt)) {
			b.changes = append(b.changes, one.Data)
			b.made++
		}
	}
	if len(unread) > 0 {
		b.lowest = unread[len(unread)-1].ID
	}
	b.changes = b.changes[max(0, len(b.changes)-MostUnread):]
	b.found = found
	if b.read && b.made == before && b.unread == len(unread) {
		return
	}
	b.read, b.unread = true, len(unread)
	close(b.changed)
	b.changed = make(chan struct{})
}

// start returns the position of a new client: it receives later notifications, and first the number of unread ones.
func (b *inbox) start() inboxPosition {
	b.mu.Lock()
	defer b.mu.Unlock()
	return inboxPosition{made: b.made, unread: -1}
}

// send sends what has changed since the client received something, and returns what to wait for.
func (b *inbox) send(out outlet, given *inboxPosition) <-chan struct{} {
	b.mu.Lock()
	changes := b.changes[max(0, len(b.changes)-(b.made-given.made)):]
	unread, read, changed := b.unread, b.read, b.changed
	given.made = b.made
	b.mu.Unlock()
	for _, data := range changes {
		out.notification(kindNotification, data)
	}
	if read && unread != given.unread {
		given.unread = unread
		out.notification(kindUnread, []byte(`{"unread":`+strconv.Itoa(unread)+`}`))
	}
	return changed
}

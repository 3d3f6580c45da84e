package request

import "sync"

// shared are the reads that the sections of one read model have in common, by name.
type shared struct {
	mu    sync.Mutex
	reads map[string]func() (any, error)
}

// Share lets the operations that a read model enters from this call share reads.
func (r *Call) Share() { r.shared = &shared{reads: map[string]func() (any, error){}} }

// Shared returns the result of read. The sections of one read model execute the read of a name once, and all wait for
// it: two sections that count the same rows would otherwise show different numbers, and cost the count twice. Only a
// result that does not depend on the rights of the caller can be shared, because each section has its own.
func Shared[T any](r *Call, name string, read func() (T, error)) (T, error) {
	if r.shared == nil {
		return read()
	}
	result, err := r.shared.read(name, func() (any, error) { return read() })()
	of, _ := result.(T)
	return of, err
}

func (s *shared) read(name string, read func() (any, error)) func() (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[name] == nil {
		s.reads[name] = sync.OnceValues(read)
	}
	return s.reads[name]
}

package identity

// Change is a request that changes something: who asks, the key under which the
// request may be repeated, and what it is answered. T is what the change makes.
type Change[T any] struct {
	Caller Caller
	Key    Key
	// Answer makes the reply that is kept with the key, from what was made.
	Answer func(T) Reply
}

func (c Change[T]) reply(made T) Reply {
	if c.Key.Key == "" || c.Answer == nil {
		return Reply{}
	}
	return c.Answer(made)
}

package rest

import "context"

// ShareOnce is one round of ShareLimits.
func (s *Server) ShareOnce(ctx context.Context) { s.chain.Share(ctx) }

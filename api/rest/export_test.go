package rest

import (
	"context"

	"github.com/gin-gonic/gin"
)

// ShareOnce is one round of ShareLimits.
func (s *Server) ShareOnce(ctx context.Context) { s.chain.Share(ctx) }

// Routes are those of the router.
func (s *Server) Routes() gin.RoutesInfo { return s.engine.Routes() }

package fleet

import (
	"github.com/gpuaas/gpuaas/internal/ids"
)

func (s *Service) Urn(kind, id string) string {
	n := s.Naming
	if n == (ids.Naming{}) {
		n = ids.DefaultNaming
	}
	return n.Name("", "", kind, id).String()
}

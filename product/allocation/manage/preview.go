package manage

import (
	"context"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// Preview is the evaluation of a request, with what the fleet offers for it now.
type Preview struct {
	allocation.Preview
	Pending // why it does not fit, and what would change that

	Fits bool
	Free int // GPUs of the SKU in the region
}

// Preview evaluates a request and writes nothing. Only operators see the names of nodes.
func (s *Service) Preview(ctx context.Context, r allocation.Request, named bool) (Preview, error) {
	of, err := s.Service.Preview(ctx, r)
	if err != nil {
		return Preview{}, err
	}
	p, a := Preview{Preview: of}, of.Allocation
	a.Node = ids.Node{}
	unfit, err := s.Inventory.Unfit(ctx, a.Wanted())
	if err != nil {
		return Preview{}, err
	}
	// Missing capacity is the last rejection, because a request can wait for it.
	if p.Fits = unfit == nil; !p.Fits {
		p.Rejections = append(p.Rejections, unfit)
		if p.Pending, err = s.Pending(ctx, a, named); err != nil {
			return Preview{}, err
		}
	}
	capacity, err := s.Inventory.Capacity(ctx)
	for _, c := range capacity {
		if c.SKU == a.SKU && (a.Region == "" || c.Region == a.Region) {
			p.Free += c.Free
		}
	}
	return p, err
}

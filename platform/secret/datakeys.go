package secret

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// DataKeys are the stored keys of a purpose that seal secrets. The newest seals, once every server has read it.
type DataKeys struct {
	Fields

	store   pki.Store
	purpose string // the beginning of their ids in envelopes
}

// OpenDataKeys reads the data keys of a store.
func OpenDataKeys(ctx context.Context, store pki.Store, purpose string, failures *Failures) (*DataKeys, error) {
	d := &DataKeys{store: store, purpose: purpose, Fields: Fields{Ring: &envelope.Ring{}, Failures: failures}}
	return d, d.Refresh(ctx)
}

// id returns the id of a key in the envelopes.
func (d *DataKeys) id(number int) string { return fmt.Sprintf("%s-%04d", d.purpose, number) }

// NewDataKey draws a data key.
func NewDataKey(number int) pki.Stored {
	return pki.Stored{Number: number, Private: envelope.NewKey()}
}

// Refresh reads the data keys again.
func (d *DataKeys) Refresh(ctx context.Context) error {
	list, err := d.store.Read(ctx)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("there is no data key")
	}
	keys, active := map[string][]byte{}, d.id(list[0].Number)
	for _, one := range list {
		keys[d.id(one.Number)] = one.Private
		if !one.Fresh {
			active = d.id(one.Number)
		}
	}
	return d.Replace(keys, active)
}

// Begin makes the next data key.
func (d *DataKeys) Begin(ctx context.Context) error {
	list, err := d.store.Read(ctx)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return errs.New(errs.Conflict, "a roll-over is under way").Try("end it first")
	}
	if err := d.store.Add(ctx, NewDataKey(list[0].Number+1)); err != nil {
		return err
	}
	return d.Refresh(ctx)
}

// Finish ends all data keys but the newest. What they have sealed can no longer be opened.
func (d *DataKeys) Finish(ctx context.Context) error {
	list, err := d.store.Read(ctx)
	if err != nil {
		return err
	}
	for _, one := range list[:max(0, len(list)-1)] {
		if err := d.store.Remove(ctx, one.Number); err != nil {
			return err
		}
	}
	return d.Refresh(ctx)
}

// Newest is the id of the newest data key.
func (d *DataKeys) Newest() string {
	ids := d.IDs()
	return ids[len(ids)-1]
}

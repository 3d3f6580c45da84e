package metering

import (
	"context"
	"fmt"
	"math/big"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// StoredEvidence is a record of stored bytes with everything that its charges follow from. The owed amounts are price × bytes
// above the free ones × seconds, as decimal numbers of any size.
type StoredEvidence struct {
	ID         uuid.UUID   `json:"id"`
	Project    ids.Project `json:"project_id"`
	Class      string      `json:"class"`
	PriceMinor money.Minor `json:"price_minor"` // per GiB and 720 hours
	FreeBytes  int64       `json:"free_bytes"`
	StartS     int64       `json:"start_s"`   // seconds since 1970
	ChangedS   int64       `json:"changed_s"` // the last change of bytes
	EndS       *int64      `json:"end_s"`     // null: the last record of the project
	Bytes      int64       `json:"bytes"`     // since changed_s
	OwedBefore string      `json:"owed_before"`
	Owed       string      `json:"owed"` // from start_s to changed_s
}

const selectStoredEvidence = `
	SELECT id, project_id, class, price_minor, free_bytes, start_s, changed_s, end_s, bytes, owed_before::text, owed::text
	FROM usage_storage WHERE org_id = $1 AND start_s < $3 AND (end_s IS NULL OR end_s > $2) ORDER BY project_id, start_s, end_s, id`

// StoredEvidenceOf lists the records of stored bytes of a tenant that lie in [from, to) at least in part, by project and time.
func (s *Service) StoredEvidenceOf(ctx context.Context, tenant ids.Tenant, from, to time.Time) ([]StoredEvidence, error) {
	return pg.List(ctx, s.DB, "records of stored bytes", selectStoredEvidence, pgx.RowToStructByPos[StoredEvidence], tenant, from.Unix(), to.Unix())
}

// Due returns the amount that the record owes of a tick: what is due at the end of the tick less what was due at its start.
func (e StoredEvidence) Due(t Tick) (money.Minor, error) {
	if e.StartS >= t.To.Unix() || e.EndS != nil && *e.EndS <= t.From.Unix() {
		return 0, nil
	}
	after, err := e.dueAt(t.To.Unix())
	if err != nil {
		return 0, err
	}
	before, err := e.dueAt(t.From.Unix())
	return after - before, err
}

func (e StoredEvidence) dueAt(second int64) (money.Minor, error) {
	owed, err := e.owedAt(second)
	if err != nil {
		return 0, err
	}
	return money.Minor(owed.Quo(owed, big.NewInt(GiB*StorageHours*3600)).Int64()), nil
}

// owedAt returns what is owed of the record and all before it.
func (e StoredEvidence) owedAt(second int64) (*big.Int, error) {
	sum, known := new(big.Int).SetString(e.OwedBefore, 10)
	owed, alsoKnown := new(big.Int).SetString(e.Owed, 10)
	if !known || !alsoKnown {
		return nil, fmt.Errorf("the record %s has no readable amounts", e.ID)
	}
	if e.EndS != nil {
		second = min(second, *e.EndS)
	}
	switch {
	case second >= e.ChangedS:
		rate := new(big.Int).Mul(big.NewInt(int64(e.PriceMinor)), big.NewInt(max(e.Bytes-e.FreeBytes, 0)))
		sum.Add(sum, owed).Add(sum, rate.Mul(rate, big.NewInt(second-e.ChangedS)))
	case second > e.StartS: // not exact, and no tick ends here
		sum.Add(sum, owed.Mul(owed, big.NewInt(second-e.StartS)).Quo(owed, big.NewInt(e.ChangedS-e.StartS)))
	}
	return sum, nil
}

// Continues reports whether a record begins with the time and the amount with which the previous one of its project has ended.
func (e StoredEvidence) Continues(previous StoredEvidence) bool {
	if previous.EndS == nil || *previous.EndS != e.StartS {
		return false
	}
	owed, err := previous.owedAt(e.StartS)
	return err == nil && owed.String() == e.OwedBefore
}

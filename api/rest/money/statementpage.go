package money

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/billing"
)

// printed is a statement as formatted text.
type printed struct {
	Month, Tenant, From, To, Currency string
	Final                             bool
	Opening, Closing, Used            string
	Sums                              []printedSum
	Usage                             []printedUse
	Stored                            []printedStored
	Movements                         []printedMove
}

type (
	printedSum struct{ What, Amount string }
	printedUse struct{ Project, SKU, Allocation, GPUs, Time, Gross, Credited string }
	// printedStored is the use of files of a project. The time is that of one GiB, in hours.
	printedStored struct{ Project, Time, Cost string }
	printedMove   struct{ At, Kind, Reference, Note, Amount string }
)

func pageOfStatement(st billing.Statement) printed {
	say := func(m money.Minor) string { return money.Format(st.Currency, m) }
	p := printed{
		Month: st.Month(), Tenant: st.Tenant.Name, From: st.From.Format(time.DateOnly), To: st.To.AddDate(0, 0, -1).Format(time.DateOnly), Currency: st.Currency,
		Final: st.Final, Opening: say(st.Opening), Closing: say(st.Closing), Used: say(-st.Usage),
	}
	for _, sum := range st.Sums() {
		p.Sums = append(p.Sums, printedSum{sum.What, say(sum.Sum)})
	}
	for _, u := range st.Uses {
		project := u.ProjectName
		if project == "" {
			project = u.Project.String()
		}
		p.Usage = append(p.Usage, printedUse{
			project, u.SKU, u.Allocation.String(), fmt.Sprint(u.GPUs), duration(u.Seconds), say(u.CostMinor), say(u.CreditMinor),
		})
	}
	for _, u := range st.Stored {
		project := u.ProjectName
		if project == "" {
			project = u.Project.String()
		}
		p.Stored = append(p.Stored, printedStored{project, gibHours(u.ByteSeconds), say(u.CostMinor)})
	}
	for _, e := range st.Movements {
		p.Movements = append(p.Movements, printedMove{
			e.At.UTC().Format(time.DateTime), strings.ReplaceAll(string(e.Kind), "_", " "), e.Reference, e.Note, say(e.AmountMinor),
		})
	}
	return p
}

// gibHours returns byte-seconds as hours of one GiB, rounded down.
func gibHours(byteSeconds string) string {
	n, _ := new(big.Int).SetString(byteSeconds, 10)
	if n == nil {
		return ""
	}
	return n.Div(n, big.NewInt(3600<<30)).String()
}

// duration is hours, minutes and seconds.
func duration(seconds int64) string {
	return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

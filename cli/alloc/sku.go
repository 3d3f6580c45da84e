package alloc

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

func NewGetSkus(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "skus", Aliases: []string{"sku"}, Short: "List SKUs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			all, err := Skus(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.Show(all.Raw, skuTable(all.Items...))
		},
	}
}

func Skus(ctx context.Context, c *client.Client) (client.List[oapi.Sku], error) {
	return client.ReadAll[oapi.Sku](ctx, c, 0, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListSkus(ctx, &oapi.ListSkusParams{Limit: size, Cursor: cursor})
	})
}

func skuTable(all ...oapi.Sku) output.Table {
	t := output.Table{
		Head: []string{"NAME", "GPU", "MEMORY", "PRICE/H", "FREE", "MAX", "REGIONS"},
		Wide: []string{"ISOLATION", "DISPLAY NAME", "ID"},
	}
	for _, s := range all {
		var regions []string
		for _, r := range s.Regions {
			regions = append(regions, fmt.Sprintf("%s %d/%d", r.Region, r.Free, r.Total))
		}
		t.Add("sku/"+s.Name,
			s.Name, s.GpuModel, strconv.Itoa(s.MemoryGib)+" GiB", output.Amount(s.Price), strconv.Itoa(s.Free), strconv.Itoa(s.MaxGpus),
			output.OrDash(strings.Join(regions, ", ")), string(s.Isolation), s.DisplayName, s.Id.String())
	}
	return t
}

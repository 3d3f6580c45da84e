package catalog

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"sku_catalog", "sku_prices", "os_images", "storage_classes"}, map[string]string{
		"selectOffers":     selectOffers,
		"selectSKU":        selectSKU,
		"selectSKUs":       selectSKUs,
		"selectAll":        selectAll,
		"upsertSKU":        upsertSKU,
		"insertPrice":      insertPrice,
		"retireSKU":        retireSKU,
		"clearDefault":     clearDefault,
		"upsertImage":      upsertImage,
		"retireImage":      retireImage,
		"selectImages":     selectImages,
		"selectStoredSKUs": selectStoredSKUs, "selectStoredImages": selectStoredImages, "selectClasses": selectClasses, "selectDefaultClass": selectDefaultClass,
		"clearDefaultClass": clearDefaultClass, "upsertClass": upsertClass, "retireClass": retireClass, "selectStoredClasses": selectStoredClasses,
	})
}

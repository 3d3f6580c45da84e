module github.com/gpuaas/gpuaas/tools/vault

go 1.26.8

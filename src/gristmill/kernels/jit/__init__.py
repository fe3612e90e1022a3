"""How kernels are compiled, and the loads that plain indexing cannot say."""

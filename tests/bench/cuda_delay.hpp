// Keeps a stream busy for a while, so that what follows is queued before it may start.
#pragma once

#include <cuda_runtime_api.h>

void delay_stream(cudaStream_t stream, long long cycles);

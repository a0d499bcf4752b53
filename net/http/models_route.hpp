// /v1/models: the served names, each exactly once.
#pragma once

#include "net/http/api_context.hpp"
#include "net/http/message.hpp"

#include <string_view>

namespace tandem::net::http {

Response list_models(const ApiContext& context);

// Answers for one id (it may contain '/'). Unknown: 404 model_not_found.
Response show_model(const ApiContext& context, std::string_view id);

// The 404 for a model that is not served; names those that are.
Response model_not_found(const ApiContext& context, std::string_view id);

}  // namespace tandem::net::http
